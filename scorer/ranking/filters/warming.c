typedef struct {
    double coverage_min;
} Warming;

static inline int64_t warming(const Row *m, const More *c, const Query *q, const Warming *p, const double *x,
                              double *said) {
    if (said) said[0] = m->coverage;
    return !(m->coverage >= p->coverage_min);
}
FILTER(warming, Warming)
