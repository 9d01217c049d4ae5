package observe

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// JournalOptions say where a journal is kept and how much of it.
type JournalOptions struct {
	// Dir is an existing directory.
	Dir string
	// Program begins the names of the files and of the link, such as mooncake_master.
	Program string
	// MaxSize is the number of bytes after which a new file is begun, at least 1. A line
	// is never split, so that a file may be longer by one line.
	MaxSize int64
	// Keep is how many files of the program stay in Dir, at least 1.
	Keep int
}

// Journal is a log file with lines of every severity. The file is named
// PROGRAM.HOST.USER.log.INFO.TIME.PID, and the link PROGRAM.INFO leads to the newest. It
// implements io.WriteCloser and is safe for concurrent use.
type Journal struct {
	opts JournalOptions
	stem string // of the files, up to the time

	mu   sync.Mutex
	file *os.File // nil after Close
	size int64
	lost int // lines since the last one that was written
}

// OpenJournal begins a file.
func OpenJournal(o JournalOptions) (*Journal, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	safe := strings.NewReplacer("/", "_", "\x00", "_")
	j := &Journal{opts: o, stem: strings.Join([]string{o.Program, safe.Replace(host), safe.Replace(name), "log", "INFO", ""}, ".")}
	if err := j.begin(); err != nil {
		return nil, errs.WithHint(fmt.Errorf("log: cannot begin a file in %s: %w", o.Dir, err), "the directory must exist and be writable for this user")
	}
	return j, nil
}

// Write appends one line. When a new file cannot be begun it goes on with the old one.
func (j *Journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return 0, fs.ErrClosed
	}
	if j.size >= j.opts.MaxSize {
		if err := j.begin(); err != nil {
			j.size = 0 // the next attempt is as far away as the first was
		}
	}
	if j.lost > 0 {
		n, err := fmt.Fprintf(j.file, "%s log: %d lines before this one are lost: they could not be written\n", time.Now().Format(time.RFC3339), j.lost)
		if j.size += int64(n); err != nil {
			return 0, j.lose(err)
		}
		j.lost = 0
	}
	n, err := j.file.Write(line)
	j.size += int64(n)
	return n, j.lose(err)
}

// lose counts a line that an error has lost. The caller holds mu.
func (j *Journal) lose(err error) error {
	if err != nil {
		j.lost++
	}
	return err
}

// Close closes the file. Repeatable; later lines are lost.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// sameSecond bounds the files that one process begins in a second.
const sameSecond = 100

// begin opens a new file, points the link at it and removes the oldest files. The caller
// holds mu, or has the journal to itself.
func (j *Journal) begin() error {
	base := j.stem + time.Now().Format("20060102-150405") + fmt.Sprintf(".%d", os.Getpid())
	name := base
	var f *os.File
	var err error
	for n := range sameSecond {
		if n > 0 {
			name = fmt.Sprintf("%s.%02d", base, n)
		}
		f, err = os.OpenFile(filepath.Join(j.opts.Dir, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o640)
		if err == nil || !os.IsExist(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	if err := j.link(name); err != nil {
		_ = f.Close() // nothing was written
		_ = os.Remove(f.Name())
		return err
	}
	if j.file != nil {
		_ = j.file.Close() // every line in it was written by a Write that said so
	}
	j.file, j.size = f, 0
	j.prune()
	return nil
}

// link makes PROGRAM.INFO lead to a file, without a moment at which it leads nowhere.
func (j *Journal) link(name string) error {
	link := filepath.Join(j.opts.Dir, j.opts.Program+".INFO")
	next := fmt.Sprintf("%s.%d", link, os.Getpid())
	_ = os.Remove(next) // left over by a process of the same number
	if err := os.Symlink(name, next); err != nil {
		return err
	}
	return os.Rename(next, link)
}

// prune removes the oldest files. One that cannot be removed stays: losing the log over
// it would be worse.
func (j *Journal) prune() {
	entries, err := os.ReadDir(j.opts.Dir)
	if err != nil {
		return
	}
	var mine []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), j.stem) && e.Type().IsRegular() {
			mine = append(mine, e.Name())
		}
	}
	slices.Sort(mine) // the time comes first in what differs
	for len(mine) > max(j.opts.Keep, 1) {
		_ = os.Remove(filepath.Join(j.opts.Dir, mine[0]))
		mine = mine[1:]
	}
}
