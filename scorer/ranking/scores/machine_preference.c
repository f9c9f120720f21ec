/* x: the sum of the weights of the preferences that match. */
static inline double machine_preference(const Row *m, const More *c, const Query *q, const None *p, const double *x,
                                        double *said) {
    return x[0];
}
SCORE(machine_preference, None)
