/* said: the shares with the instance. */
static inline double least_allocated(const Row *m, const More *c, const Query *q, const Allocation *p, const double *x,
                                     double *said) {
    double values[R];
    uint8_t counts[R];
    for (int r = 0; r < R; r++) {
        double limit = whole(m->allocatable[r], p, r);
        counts[r] = limit > 0;
        values[r] = percent_left(whole(allocated_of(m, c, p, r) + added_by(q, p, r), p, r), limit, p->rounding);
    }
    say_shares(m, c, q, p, said);
    return mean_by_weight(values, counts, q, p, p->rounding);
}
SCORE(least_allocated, Allocation)
