package drivers

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeServer is a server of keys and values, and counts open connections.
type fakeServer struct {
	mu           sync.Mutex
	values       map[string][]byte
	open, dialed int
	damaged      bool
}

type fakeConn struct{ *fakeServer }

func (s *fakeServer) dial() (KeyValue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	s.dialed++
	return fakeConn{s}, nil
}

func (c fakeConn) Set(key string, value []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[key] = append([]byte(nil), value...)
	return nil
}

func (c fakeConn) Get(key string, dst []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.values[key]
	if !ok || len(v) != len(dst) {
		return errors.New("no " + key)
	}
	copy(dst, v)
	if c.damaged {
		dst[0] ^= 1
	}
	return nil
}

func (c fakeConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	return nil
}

func TestKeyValues(t *testing.T) {
	s := &fakeServer{values: map[string][]byte{}}
	k, err := NewKeyValues(s.dial)
	require.NoError(t, err)
	job := Job{Size: smallSize, Count: 1, Threads: 2, Seconds: 1e-9}
	job.Do = Get
	_, err = k.Do(job)
	require.ErrorContains(t, err, "no set/")
	_, err = k.Do(Job{Do: Prepare, Sets: Sets(smallSize)})
	require.NoError(t, err)
	for _, do := range []string{Put, Get} {
		job.Do = do
		a, err := k.Do(job)
		require.NoError(t, err)
		require.Equal(t, 2, a.Phases[do].Calls)
	}
	require.Equal(t, 7, s.dialed, "a connection for each thread")
	require.Zero(t, s.open)

	s.damaged = true
	_, err = k.Do(job)
	require.ErrorContains(t, err, "other bytes than were put")
	job.Count = 2
	_, err = k.Do(job)
	require.ErrorContains(t, err, "there is no job", "such servers take one object a call here")
}
