package transport_test

import (
	"testing"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

type changing struct{}

func (changing) Changed() <-chan struct{} { return nil }

type wrapper struct{ inner any }

func (w wrapper) Unwrap() any { return w.inner }

func TestAs(t *testing.T) {
	if _, ok := transport.As[transport.Changing](wrapper{wrapper{changing{}}}); !ok {
		t.Error("the companion inside two wrappers was not found")
	}
	for _, x := range []any{nil, wrapper{nil}, wrapper{wrapper{3}}} {
		if _, ok := transport.As[transport.Changing](x); ok {
			t.Errorf("%#v has no such companion", x)
		}
	}
}
