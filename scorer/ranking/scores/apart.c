/* x: instances of the cluster. */
static inline double apart(const Row *m, const More *c, const Query *q, const None *p, const double *x, double *said) {
    return 100.0 / (1.0 + x[0]);
}
SCORE(apart, None)
