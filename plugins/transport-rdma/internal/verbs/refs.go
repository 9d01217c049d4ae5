package verbs

import "sync"

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

// hold adds a user. It fails with ErrClosed after close.
func (l *refs) hold() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.users++
	return nil
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
