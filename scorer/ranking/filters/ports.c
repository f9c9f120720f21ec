/* x: instances that have one of the ports. */
static inline int64_t ports(const Row *m, const More *c, const Query *q, const None *p, const double *x, double *said) {
    return x[0] > 0.0;
}
FILTER(ports, None)
