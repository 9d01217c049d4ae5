package main

// call runs what moves objects to its end on a goroutine of its own. The goroutine that C
// called is bound to C's thread: each time it waits, for the master, a peer or another
// goroutine, two threads have to change places. So it waits once.
func call(work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	<-done
}
