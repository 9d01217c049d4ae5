// Package busypoll looks for what a peer is about to send for a moment before it sleeps.
//
// To put a thread to sleep and to wake it costs 2 to 10 us of processor time, and on a virtual
// machine, whose idle processors are given back to the host, 20 to 60 us until it runs. An answer
// that takes less than that is had sooner, and often for less processor time, by asking the
// socket again until it is there (ADR 21 has figures).
//
// What keeps that from harming others:
//
//   - A wait polls for a bounded time, 200 us unless told otherwise.
//   - A [Poller] remembers whether polling paid. Where it did not, four times in a row, it lets
//     more and more waits sleep at once before it tries again, 1024 in the end.
//   - Between two looks the processor is offered to other processes, and to other goroutines where
//     GOMAXPROCS is 1, unless [KeepProcessor] was called; elsewhere another thread takes those.
//   - A quarter of the processors, but at least one, polls at a time in a process.
//
// A [Conn] is a connection that Go's scheduler does not watch, so that nobody else is woken for what
// comes while somebody polls (ADR 22). [Adopt] makes one; a [Reader], a [Lookout] and a [Sender] work
// with connections of either kind.
package busypoll
