package s3

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/mooncake-go/mooncake/sdk/tier"
)

// FuzzDecodeHead: whatever an object begins with, what is decoded is what encodeHead makes.
func FuzzDecodeHead(f *testing.F) {
	r := tier.Record{Key: []byte("key"), Version: tier.Version{Epoch: 1, Put: 2}, Size: 3, Sum: 4, Summed: true}
	f.Add(encodeHead(r), space(r))
	f.Add([]byte(placeholder), uint64(len(placeholder)))
	f.Fuzz(func(t *testing.T, b []byte, size uint64) {
		r, err := decodeHead(b, size)
		if err != nil {
			return
		}
		again, err := decodeHead(encodeHead(r), size)
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatal(r, again, err)
		}
	})
}

func TestHead(t *testing.T) {
	r := tier.Record{Key: []byte("key"), Version: tier.Version{Epoch: 1, Put: 2}, Size: 3, Sum: 4, Summed: true}
	head := encodeHead(r)
	if got, err := decodeHead(append(head, "value"...), space(r)); err != nil || !reflect.DeepEqual(got, r) {
		t.Fatal(got, err)
	}
	if _, err := decodeHead(head, space(r)+1); err == nil {
		t.Error("a size that is not that of the object")
	}
	for i := range head {
		bad := bytes.Clone(head)
		bad[i] ^= 1
		if _, err := decodeHead(bad, space(r)); err == nil {
			t.Errorf("byte %d is damaged", i)
		}
	}
}

// TestABodyThatEnded: what the HTTP client reads after the request has returned is not the memory of the operation.
func TestABodyThatEnded(t *testing.T) {
	b := newBody([][]byte{{1, 2}, {3}})
	got := make([]byte, 1)
	if n, err := b.Read(got); n != 1 || err != nil || got[0] != 1 || b.size != 3 {
		t.Fatal(n, err, got, b.size)
	}
	b.end()
	if n, err := b.Read(got); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(n, err)
	}
}
