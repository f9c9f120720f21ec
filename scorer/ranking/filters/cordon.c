static inline int64_t cordon(const Row *m, const More *c, const Query *q, const None *p, const double *x,
                             double *said) {
    return m->cordon;
}
FILTER(cordon, None)
