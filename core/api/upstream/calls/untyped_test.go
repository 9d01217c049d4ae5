package calls

import (
	"reflect"

	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
)

// untyped is a call whose messages have any type.
type untyped interface {
	Function
	untypedRequest(v Version) message
	untypedResponse(v Version) message
}

// message encodes and decodes what value points to.
type message struct {
	value  reflect.Value // the struct, addressable
	schema structpack.Schema
	// decode checks the hash.
	decode func(body []byte) error
	append func(out []byte, literal bool) ([]byte, error)
}

func (c *Call[Q, R]) untypedRequest(v Version) message {
	q := new(Q)
	m := message{value: reflect.ValueOf(q).Elem()}
	m.decode = func(body []byte) error { _, err := c.DecodeRequest(body, q); return err }
	m.append = func(out []byte, literal bool) ([]byte, error) {
		if literal && c.request != nil {
			return structpack.Append(out, &m.schema, true, q, c.request)
		}
		return c.AppendRequest(out, v, q)
	}
	c.describe()
	m.schema = c.schemas[v-oldest].request
	return m
}

func (c *Call[Q, R]) untypedResponse(v Version) message {
	r := new(R)
	m := message{value: reflect.ValueOf(r).Elem()}
	m.decode = func(body []byte) error { return c.DecodeResponse(body, v, r) }
	m.append = func(out []byte, literal bool) ([]byte, error) {
		if literal {
			return structpack.Append(out, &m.schema, true, r, c.response)
		}
		return c.AppendResponse(out, v, r)
	}
	c.describe()
	m.schema = c.schemas[v-oldest].response
	return m
}
