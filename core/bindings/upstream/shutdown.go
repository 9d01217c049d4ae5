package upstream

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Shutdown calls functions once when the process gets SIGTERM or SIGINT, and then lets the signal
// have its default effect. The zero value handles no signal until a function is added. It lives as
// long as the process.
type Shutdown struct {
	mu    sync.Mutex
	tasks map[int64]func()
	on    bool
}

// Add adds a function, which must be bounded, for the engine with a number.
func (s *Shutdown) Add(engine int64, task func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tasks == nil {
		s.tasks = map[int64]func(){}
	}
	s.tasks[engine] = task
	if s.on {
		return
	}
	s.on = true
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGTERM, syscall.SIGINT)
	go s.wait(got)
}

// Remove removes the function of an engine.
func (s *Shutdown) Remove(engine int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tasks, engine)
}

func (s *Shutdown) wait(got chan os.Signal) {
	sig := <-got
	s.run()
	signal.Stop(got)
	signal.Reset(syscall.SIGTERM, syscall.SIGINT)
	if n, ok := sig.(syscall.Signal); ok {
		_ = syscall.Kill(os.Getpid(), n) // A process may always signal itself.
	}
}

// run calls the functions concurrently and waits for them.
func (s *Shutdown) run() {
	s.mu.Lock()
	tasks := s.tasks
	s.tasks = nil
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, task := range tasks {
		all.Go(task)
	}
	all.Wait()
}
