package metrics

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// The most series of one labelled metric. What comes after them counts under "other":
// names come from callers, and a scrape has to stay of bounded size.
const (
	maxLabelled = 2048
	maxMethods  = 128
	other       = "other"
)

// Labelled is a counter for each combination of label values. Full, it counts the tenants
// that it does not know under the name "other".
type Labelled struct {
	mu     sync.Mutex
	counts map[string]uint64 // by the values, joined with NUL
}

// Add adds n for the values of the labels, one for each, the tenant first.
func (l *Labelled) Add(n uint64, values ...string) {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteByte(0)
		}
		b.WriteString(label(v))
	}
	key := b.String()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[string]uint64{}
	}
	if _, known := l.counts[key]; !known && len(l.counts) >= maxLabelled {
		_, rest, _ := strings.Cut(key, "\x00")
		key = strings.TrimSuffix(other+"\x00"+rest, "\x00")
	}
	l.counts[key] += n
}

// each calls do for every series, outside the lock.
func (l *Labelled) each(do func(values []string, n uint64)) {
	l.mu.Lock()
	keys, counts := make([]string, 0, len(l.counts)), make([]uint64, 0, len(l.counts))
	for k, n := range l.counts {
		keys, counts = append(keys, k), append(counts, n)
	}
	l.mu.Unlock()
	for i, k := range keys {
		do(strings.Split(k, "\x00"), counts[i])
	}
}

// Methods is a histogram of times for each method of an API.
type Methods struct {
	times sync.Map // name to *Durations
	mu    sync.Mutex
	n     int
}

// Observe counts one call of a method, which took some time. It does not wait.
func (m *Methods) Observe(method string, took time.Duration) {
	d, ok := m.times.Load(method)
	if !ok {
		d = m.add(method)
	}
	d.(*Durations).Observe(took)
}

func (m *Methods) add(method string) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n >= maxMethods {
		method = other
	}
	d, known := m.times.LoadOrStore(method, new(Durations))
	if !known {
		m.n++
	}
	return d
}

func (m *Methods) each(do func(method string, d *Durations)) {
	m.times.Range(func(k, v any) bool {
		do(label(k.(string)), v.(*Durations))
		return true
	})
}

// label makes a name fit to be the value of a label, which has to be UTF-8; it keeps
// names apart.
func label(name string) string {
	if utf8.ValidString(name) && !strings.Contains(name, "\x00") {
		return name
	}
	return fmt.Sprintf("%q", name)
}
