// Package busypoll polls sockets for a short time before a wait sleeps.
//
// Putting a thread to sleep and waking it costs 2 to 10 us of processor time. On a virtual machine,
// which gives idle processors back to its host, it takes 20 to 60 us until the thread runs. An
// answer that arrives sooner than that is read earlier, and often for less processor time, if the
// caller asks the socket again and again (ADR 21 has figures).
//
// Four rules keep polling from slowing down other work:
//
//   - A wait polls for a bounded time, 200 us by default.
//   - A [Poller] remembers whether polling paid. After four waits in a row for which it did not,
//     the next waits sleep at once: first 8 of them, later up to 1024, before one polls again.
//   - Between two polls a wait yields the processor to other processes. If GOMAXPROCS is 1 it also
//     yields to other goroutines, unless [KeepProcessor] was called; with more processors, other
//     threads run those.
//   - At most a quarter of the processors poll in one process, but always at least one.
//
// Go's scheduler does not watch a [Conn], so arriving data wakes no thread while a goroutine polls
// for it (ADR 22). [Adopt] makes a Conn. [NewReader], [NewReadPoller] and [NewSender] take connections
// of either kind.
package busypoll
