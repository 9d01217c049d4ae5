// Package evictsim plays a trace against an eviction policy and counts what a pool of a
// given size would have hit. It drives any evict.Policy through its contract, as the master
// does, so that what is measured is the code that runs.
//
// The pool holds a number of blocks, all of one size. Blocks of a request are looked up in
// order; each is an access when it is there, and is inserted at once when it is not, after
// the policy gave up a block where the pool was full. Requests do not overlap, and no block
// is leased. This is the rule of published hit ratios.
//
// The prefix hit ratio counts a block only if all before it in its request hit as well: an
// engine can use nothing behind the first gap.
//
// The optimum knows the future and may decline to insert (see package oracle). It is the
// most that can be had by blocks; its prefix hit ratio is what comes with that, and not a
// bound for others.
package evictsim
