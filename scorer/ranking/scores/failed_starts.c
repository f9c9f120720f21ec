/* x: starts that failed on the machine. */
static inline double failed_starts(const Row *m, const More *c, const Query *q, const None *p, const double *x,
                                   double *said) {
    return 100.0 * exp2(-x[0]);
}
SCORE(failed_starts, None)
