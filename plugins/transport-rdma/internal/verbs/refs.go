package verbs

import (
	"errors"
	"sync"
)

// refs counts the users of an object that others are made of: children, and calls in flight.
// The object is freed when it is closed and has no users.
type refs struct {
	mu     sync.Mutex
	users  int
	closed bool
	freed  bool
	// free is called once, or again after it failed.
	free func() error
	// parent loses a user when the object is freed; nil for none.
	parent *refs
}

// adopt calls create, whose success adds a user. It fails with ErrClosed after close.
func (l *refs) adopt(create func() error) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.users++
	l.mu.Unlock()
	if err := create(); err != nil {
		return errors.Join(err, l.drop())
	}
	return nil
}

// use keeps the object while f runs. It fails with ErrClosed after close.
func (l *refs) use(f func() error) error {
	if err := l.adopt(f); err != nil {
		return err
	}
	return l.drop()
}

// drop takes a user away. The error is that of freeing the object or a parent, if this was what
// it waited for; it is tried again when that object is closed again.
func (l *refs) drop() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	return l.tryFree()
}

// close bars new users and frees the object, at once or with the last user. Repeatable.
func (l *refs) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.tryFree()
}

func (l *refs) tryFree() error {
	if !l.closed || l.users > 0 || l.freed {
		return nil
	}
	if err := l.free(); err != nil {
		return err
	}
	l.freed = true
	if l.parent == nil {
		return nil
	}
	return l.parent.drop()
}
