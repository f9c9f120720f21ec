/* x: taints of effect avoid that the request does not tolerate. */
static inline double taint_preference(const Row *m, const More *c, const Query *q, const None *p, const double *x,
                                      double *said) {
    return x[0];
}
SCORE(taint_preference, None)
