/* x: taints that the request does not tolerate. */
static inline int64_t taints(const Row *m, const More *c, const Query *q, const None *p, const double *x,
                             double *said) {
    return x[0] > 0;
}
FILTER(taints, None)
