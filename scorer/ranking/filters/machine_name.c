static inline int64_t machine_name(const Row *m, const More *c, const Query *q, const None *p, const double *x,
                                   double *said) {
    return m->number != q->machine;
}
FILTER(machine_name, None)
