/* x: 1 where the request excludes the machine, else 0 where it names one, -1 where it names none. */
static inline int64_t machine_name(const Row *m, const More *c, const Query *q, const None *p, const double *x,
                                   double *said) {
    return x[0] > 0.0 ? 2 : x[0] == 0.0 && m->number != q->machine;
}
FILTER(machine_name, None)
