package drivers

import (
	"errors"
	"fmt"
)

// KeyValue is one connection to a server of keys and values. It is for one goroutine.
type KeyValue interface {
	Set(key string, value []byte) error
	// Get reads a value of exactly len(dst) bytes.
	Get(key string, dst []byte) error
	Close() error
}

// KeyValues does the jobs of a store on connections of their own, one a thread, one object a
// call. Values are written over, never removed.
type KeyValues struct {
	dial func() (KeyValue, error)
	area area
}

// NewKeyValues makes one; its connections last as long as a job.
func NewKeyValues(dial func() (KeyValue, error)) (*KeyValues, error) {
	mem, err := newArea()
	return &KeyValues{dial: dial, area: mem}, err
}

// Do does Prepare, Put and Get, with one object a call.
func (k *KeyValues) Do(j Job) (Answer, error) {
	switch {
	case j.Do == Prepare:
		return Answer{}, k.prepare(j)
	case (j.Do == Put || j.Do == Get) && j.Count == 1:
		return k.run(j)
	}
	return Answer{}, unknown(j)
}

func (k *KeyValues) prepare(j Job) (err error) {
	c, err := k.dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, s := range j.Sets {
		for i := range s.Objects() {
			if err := c.Set(setKey(s.Size, i), k.area.source(s.Size)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *KeyValues) run(j Job) (a Answer, err error) {
	threads, mems := make([]thread, j.Threads), make([][]byte, j.Threads)
	var open []KeyValue
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.Close())
		}
	}()
	n := Set{Size: j.Size, Bytes: setBytes(j.Size)}.Objects()
	for t := range threads {
		if mems[t], err = k.area.of(t, j); err != nil {
			return Answer{}, err
		}
		copy(mems[t], k.area.source(j.Size))
		c, err := k.dial()
		if err != nil {
			return Answer{}, err
		}
		open = append(open, c)
		from := t * n / j.Threads
		call := func(i int) error { return c.Get(setKey(j.Size, (from+i)%n), mems[t]) }
		if j.Do == Put {
			call = func(i int) error { return c.Set(fmt.Sprintf("put/%d/%d", j.Size, (from+i)%n), mems[t]) }
		} else {
			clear(mems[t])
		}
		threads[t] = thread{calls: 1 << 30, do: call}
	}
	p, err := together(j.PIDs, threads, seconds(j.Seconds))
	for _, mem := range mems {
		if err == nil {
			err = k.area.check(mem, j.Size)
		}
	}
	return Answer{Phases: map[string]Phase{j.Do: p}}, err
}
