// Package transfer measures the transfer engine between two processes, or within one: how
// many bytes a second it moves, and how long a batch of requests takes, beside what the
// machine gives without it. It is what `mooncake bench transfer` runs.
//
// A Target holds memory that it opens to peers. A Session is the other side: threads that
// each submit a batch of requests, wait for all of them, and begin anew. Run is one such
// measurement; Sweep takes a grid of sizes, with warm-up, rounds, medians and content that
// is checked.
//
// GB is 10^9 bytes. Latencies are those of a whole batch, from its submission until its
// last request is done; with one request in a batch they are those of a request.
package transfer
