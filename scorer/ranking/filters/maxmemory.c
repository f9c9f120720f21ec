typedef struct {
    double share;
} Maxmemory;

static inline int64_t maxmemory(const Row *m, const More *c, const Query *q, const Maxmemory *p, const double *x,
                                double *said) {
    if (said) {
        said[0] = m->maxmemory + q->maxmemory;
        said[1] = m->allocatable[MEMORY] * p->share;
    }
    return !(m->maxmemory + q->maxmemory <= m->allocatable[MEMORY] * (p->share * (1 + ROUNDING)));
}
FILTER(maxmemory, Maxmemory)
