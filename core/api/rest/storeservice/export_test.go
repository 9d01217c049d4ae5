package storeservice

import "time"

// Routes lists method and path of the table.
func Routes() (out [][2]string) {
	for _, r := range routes() {
		out = append(out, [2]string{r.method, r.path})
	}
	return out
}

// The bounds, for tests.
const (
	Pace       = pace
	PaceGrace  = paceGrace
	MemoryWait = memoryWait
)

// Parse is the decoder of bodies.
func Parse(body []byte) (map[string]string, error) {
	f, err := parse(body)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name := range f {
		if text, err := f.text(name); err == nil {
			out[name] = text
		}
	}
	return out, nil
}

// FreeMemory tells how much is not held by requests.
func (s *Service) FreeMemory() int64 {
	n := int64(0)
	for step := s.opts.Memory; step > 0; step /= 2 {
		for s.memory.TryAcquire(step) {
			n += step
		}
	}
	s.memory.Release(n)
	return n
}

// Tracked lists what reconfigure has mounted.
func (s *Service) Tracked() []string {
	s.turn <- struct{}{}
	defer s.yield()
	return texts(s.role.ids)
}

// Due is when a client that moved so many bytes has to go on.
func Due(moved int) time.Duration { return due(time.Time{}, moved).Sub(time.Time{}) }
