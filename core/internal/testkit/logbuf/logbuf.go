// Package logbuf is a log that a test reads while others write it.
package logbuf

import (
	"bytes"
	"strings"
	"sync"
)

// Buffer collects what is written. The zero value is empty. Safe for concurrent use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was written so far.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Count returns how often a text was written so far.
func (l *Buffer) Count(text string) int { return strings.Count(l.String(), text) }
