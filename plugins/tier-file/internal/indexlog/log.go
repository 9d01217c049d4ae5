package indexlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Log is a file that is open for appending. It is not safe for concurrent use, except that Sync may
// be called at any time before Close.
type Log struct {
	f      *os.File
	dir    string
	number uint64
	owner  Owner
	pages  uint64
}

func name(n uint64) string { return fmt.Sprintf("index-%d.log", n) }

// Create begins a log, which replaces others of the folder when Commit is called.
func Create(dir string, number uint64, o Owner) (*Log, error) {
	f, err := os.OpenFile(filepath.Join(dir, name(number)+".tmp"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &Log{f: f, dir: dir, number: number, owner: o}, nil
}

// Commit makes a created log the log of its folder, durably, and removes the others. After an error
// either log may be the one that the next Open finds.
func (l *Log) Commit() error {
	final := filepath.Join(l.dir, name(l.number))
	if err := l.f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(final+".tmp", final); err != nil {
		return err
	}
	if err := SyncDir(l.dir); err != nil {
		return err
	}
	_, err := clean(l.dir, l.number)
	return err
}

// Discard closes and removes a log that was created and not committed.
func (l *Log) Discard() {
	l.f.Close()
	_ = os.Remove(filepath.Join(l.dir, name(l.number)+".tmp"))
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// clean removes all logs of a folder but one, and returns the numbers of those that it found.
func clean(dir string, keep uint64) ([]uint64, error) {
	all, err := filepath.Glob(filepath.Join(dir, "index-*.log*"))
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, p := range all {
		var n uint64
		if _, err := fmt.Sscanf(filepath.Base(p), "index-%d.log", &n); err == nil && filepath.Base(p) == name(n) {
			numbers = append(numbers, n)
			if n >= keep {
				continue
			}
		}
		if keep > 0 {
			if err := os.Remove(p); err != nil {
				return nil, err
			}
		}
	}
	return numbers, nil
}

// Open finds the log of a folder and calls do for each of its events, in the order in which they
// were added. The key of an event is valid during the call. skipped is how many pages were not
// readable. A nil Log without an error says that there is none.
func Open(dir string, o Owner, do func(*Event)) (l *Log, skipped uint64, err error) {
	numbers, err := clean(dir, 0)
	if err != nil || len(numbers) == 0 {
		return nil, 0, err
	}
	last := slices.Max(numbers)
	if _, err := clean(dir, last); err != nil {
		return nil, 0, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name(last)), os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	l = &Log{f: f, dir: dir, number: last, owner: o}
	skipped, err = l.load(do)
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return l, skipped, nil
}

// load reads all pages.
func (l *Log) load(do func(*Event)) (skipped uint64, err error) {
	buf := make([]byte, 256*PageSize)
	for {
		n, err := io.ReadFull(l.f, buf)
		if n == 0 && errors.Is(err, io.EOF) {
			return skipped, nil
		}
		for at := 0; at < n; at += PageSize {
			var events []Event
			page := buf[at:min(at+PageSize, n)]
			if decodePage(page, l.owner, l.pages, func(e *Event) { events = append(events, *e) }) != nil {
				skipped, events = skipped+1, nil
			}
			for i := range events {
				do(&events[i])
			}
			l.pages++
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return skipped, nil
		case err != nil:
			return skipped, err
		}
	}
}

// Number returns which log of its folder it is. They count up.
func (l *Log) Number() uint64 { return l.number }

// Size returns the length of the file in bytes.
func (l *Log) Size() uint64 { return l.pages * PageSize }

// Append seals pages and writes them. After an error the pages that follow are skipped by a reader
// or not, so the log has to be replaced.
func (l *Log) Append(pages []byte) error {
	seal(pages, l.owner, l.pages)
	if _, err := l.f.WriteAt(pages, int64(l.pages)*PageSize); err != nil {
		return err
	}
	l.pages += uint64(len(pages)) / PageSize
	return nil
}

// Sync makes what was appended durable.
func (l *Log) Sync() error {
	raw, err := l.f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Fdatasync(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// Close closes the file without syncing it.
func (l *Log) Close() { l.f.Close() }
