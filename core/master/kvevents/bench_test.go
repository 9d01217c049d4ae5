package kvevents

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkStored is what an event costs the goroutine that reports it, while there is no
// subscriber.
func BenchmarkStored(b *testing.B) {
	p, err := New(Config{Endpoint: "tcp://127.0.0.1:0", BackendID: "b", QueueCapacity: 65536, LegacyCompat: true, ObjectKey: true})
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer p.Stop(context.Background()) //nolint:errcheck // nothing is left to do
	b.ReportAllocs()
	for b.Loop() {
		p.Stored("default", "12345678901234567890", "")
	}
}

// BenchmarkPayload encodes a full batch.
func BenchmarkPayload(b *testing.B) {
	e := encoder{backend: "pool", legacy: true, object: true}
	events := make([]event, maxBatch)
	for i := range events {
		events[i] = event{stored: true, tenant: "default", key: fmt.Sprint(1<<60 + i)}
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = e.payload(dst[:0], 1739145600000, 1, events)
	}
	b.SetBytes(int64(len(dst)))
}
