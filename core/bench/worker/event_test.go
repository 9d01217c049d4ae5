package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func events(t require.TestingT, r io.Reader) []worker.Event {
	var out []worker.Event
	dec := worker.NewDecoder(r)
	for {
		ev, err := dec.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		out = append(out, ev)
	}
}

// TestServe lets each request take a second and asks for progress every 200 ms.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &Faulty{Pool: NewPool(10), BeforeExist: func(context.Context, []string) error {
			time.Sleep(time.Second) // Virtual.
			return nil
		}}
		cfg := config()
		cfg.Worker, cfg.Total = 2, 3
		w, err := worker.New(cfg, pool)
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, worker.Serve(t.Context(), w, requests(six, six, six), &out, 200*time.Millisecond))

		got := events(t, iotest.HalfReader(&out))
		var last uint64
		for _, ev := range got[:len(got)-1] {
			require.Equal(t, 2, ev.Worker)
			require.NotNil(t, ev.Progress)
			require.EqualValues(t, 3, ev.Progress.Total)
			require.GreaterOrEqual(t, ev.Progress.Requests, last)
			last = ev.Progress.Requests
		}
		require.GreaterOrEqual(t, len(got), 14)
		res := got[len(got)-1].Result
		require.NotNil(t, res)
		require.EqualValues(t, 12, res.BlocksHit)
		require.EqualValues(t, 3, res.Lookup.Latency.Count())
		require.InDelta(t, time.Second, res.Lookup.Latency.Quantile(0.5), float64(10*time.Millisecond))
	})
}

func TestServeReportsAnError(t *testing.T) {
	cause := errs.New(errs.InvalidKey, "exist", "bad key")
	pool := &Faulty{Pool: NewPool(10), BeforeExist: func(context.Context, []string) error { return cause }}
	w, err := worker.New(config(), pool)
	require.NoError(t, err)
	var out bytes.Buffer
	require.ErrorIs(t, worker.Serve(t.Context(), w, requests(six), &out, time.Hour), cause)
	got := events(t, &out)
	require.Len(t, got, 2)
	require.NotNil(t, got[0].Result, "what was done comes first")
	require.True(t, errs.Is(got[1].Error.Err(), errs.InvalidKey))
	require.ErrorContains(t, got[1].Error.Err(), "bad key")
}

// TestServeEndsWithItsParent: no process reads any more, so the worker stops.
func TestServeEndsWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &Faulty{Pool: NewPool(10), BeforeExist: func(ctx context.Context, _ []string) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		cfg := config()
		cfg.OpTimeout = time.Hour
		w, err := worker.New(cfg, pool)
		require.NoError(t, err)
		r, pipe := io.Pipe()
		require.NoError(t, r.Close())
		begin := time.Now()
		err = worker.Serve(t.Context(), w, requests(six), pipe, time.Second)
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.Less(t, time.Since(begin), time.Minute)
	})
}

func TestDecoderRefusals(t *testing.T) {
	var buf bytes.Buffer
	res := run(t, config(), NewPool(1), requests(six))
	require.NoError(t, worker.NewEncoder(&buf).Encode(worker.Event{Result: &res}))
	good := strings.TrimSpace(buf.String())
	for name, line := range map[string]string{
		"not JSON":        `panic: oh dear`,
		"nothing set":     `{"worker":1}`,
		"two set":         `{"worker":1,"progress":{},"error":{"code":-1,"message":"x"}}`,
		"negative worker": `{"worker":-1,"progress":{}}`,
		"negative count":  `{"worker":1,"progress":{"requests":-1}}`,
		"no histogram":    `{"worker":1,"result":{}}`,
		"null histogram":  strings.Replace(good, `"latency":{"ns":[]}`, `"latency":null`, 1),
		"negative time":   strings.Replace(good, `"busy_ns":0`, `"busy_ns":-5`, 1),
		"too many hits":   strings.Replace(good, `"blocks_hit":0`, `"blocks_hit":1000`, 1),
		"too many tiers":  strings.Replace(good, `"puts_ok"`, `"tier_hits":1000,"puts_ok"`, 1),
		"too much detail": strings.Replace(good, `"filling_ns"`, `"wrong":[""`+strings.Repeat(`,""`, 16)+`],"filling_ns"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEqual(t, good, line)
			dec := worker.NewDecoder(strings.NewReader(line + "\n" + good + "\n"))
			_, err := dec.Next()
			require.ErrorIs(t, err, worker.ErrEvent)
			require.True(t, errs.Is(err, errs.InvalidParams))
			ev, err := dec.Next()
			require.NoError(t, err, "the line after it is read")
			require.Equal(t, res.Progress, ev.Result.Progress)
		})
	}
	dec := worker.NewDecoder(strings.NewReader(strings.Repeat("x", worker.MaxEvent+1)))
	for range 2 {
		_, err := dec.Next()
		require.True(t, errs.Is(err, errs.InvalidParams))
		require.ErrorContains(t, err, "too long")
	}
	_, err := worker.NewDecoder(iotest.ErrReader(io.ErrUnexpectedEOF)).Next()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func FuzzDecoder(f *testing.F) {
	var buf bytes.Buffer
	res := run(f, config(), NewPool(3), requests(six, six))
	enc := worker.NewEncoder(&buf)
	require.NoError(f, enc.Encode(worker.Event{Worker: 1, Result: &res}))
	require.NoError(f, enc.Encode(worker.Event{Progress: &res.Progress}))
	f.Add(buf.Bytes())
	f.Add([]byte(`{"worker":0,"error":{"code":-704,"message":"gone"}}`))
	f.Add([]byte("\n{}\nnull\n[]\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		dec := worker.NewDecoder(bytes.NewReader(in))
		for {
			ev, err := dec.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				if !errors.Is(err, worker.ErrEvent) {
					return
				}
				continue
			}
			line, err := json.Marshal(ev)
			require.NoError(t, err)
			_, err = worker.NewDecoder(bytes.NewReader(line)).Next()
			require.NoError(t, err)
		}
	})
}
