/* x: whether the labels match. */
static inline int64_t selector(const Row *m, const More *c, const Query *q, const None *p, const double *x,
                               double *said) {
    return x[0] == 0.0;
}
FILTER(selector, None)
