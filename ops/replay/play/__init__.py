"""The simulation, and what places, moves and evicts in it.

simulation     the loop: readings are folded, arrivals are placed, instances end; and the queue of those that ask
roles          what takes part: a policy, a mover, an evictor, and the moment that they are shown
true_fleet     the true state: the machine of each instance, the load of each
measuring      readings to windows to snapshot, by the product's own code; reports the usage of each instance
lessons        what a scorer learns of its fleet: expected use, predicted peaks
policies       a profile as a policy; references: random, best fit, an oracle, those of worlds with batch
contenders     which policies are run in a world; moves: how instances move, evictions: how some are evicted
"""
