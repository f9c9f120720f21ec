/* x: instances of the group near the machine; NaN where it has no such label. */
static inline double spread(const Row *m, const More *c, const Query *q, const None *p, const double *x, double *said) {
    return x[0];
}
SCORE(spread, None)
