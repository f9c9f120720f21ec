typedef struct {
    double most;
} Masters;

/* x: masters of the cluster. */
static inline int64_t masters(const Row *m, const More *c, const Query *q, const Masters *p, const double *x,
                              double *said) {
    return x[0] + 1.0 > p->most;
}
FILTER(masters, Masters)
