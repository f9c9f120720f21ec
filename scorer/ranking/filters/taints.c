/* settings: by number of a set of taints, whether the request does not tolerate it. */
static inline int64_t taints(const Row *m, const More *c, const Query *q, const uint8_t *p, const double *x,
                             double *said) {
    return p[m->taints];
}
FILTER(taints, uint8_t)
