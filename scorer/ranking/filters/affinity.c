/* x: terms that no instance near the machine matches. */
static inline int64_t affinity(const Row *m, const More *c, const Query *q, const None *p, const double *x,
                               double *said) {
    return x[0] > 0.0;
}
FILTER(affinity, None)

/* x: instances near the machine beyond what a term allows; those that avoid the requested one; missing labels. */
static inline int64_t anti_affinity(const Row *m, const More *c, const Query *q, const None *p, const double *x,
                                    double *said) {
    return x[0] > 0.0 ? 1 : x[1] > 0.0 ? 2 : x[2] > 0.0 ? 3 : 0;
}
FILTER(anti_affinity, None)
