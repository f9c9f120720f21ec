/* x: masters of the cluster, and the most that may be there. */
static inline int64_t masters(const Row *m, const More *c, const Query *q, const None *p, const double *x,
                              double *said) {
    return x[0] + 1.0 > x[1];
}
FILTER(masters, None)
