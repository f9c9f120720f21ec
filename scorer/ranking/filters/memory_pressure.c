typedef struct {
    double available_min;
} MemoryPressure;

static inline int64_t memory_pressure(const Row *m, const More *c, const Query *q, const MemoryPressure *p,
                                      const double *x, double *said) {
    if (said) said[0] = m->available;
    return m->available < p->available_min;
}
FILTER(memory_pressure, MemoryPressure)
