// Package calls has the functions of upstream's master, as upstream's own clients call them: their
// numbers, and their requests and responses in each version.
package calls

import (
	"fmt"
	"sync"

	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Coder is what a walk drives.
type Coder = structpack.Coder

// Function is a call of the master without its types. The functions are in [Functions].
type Function interface {
	// Name is the name without the name space: "PutStart".
	Name() string
	// ID is the number by which clients call the function.
	ID() uint32
	// Versions are those that have the function.
	Versions() Versions
	// Accepts returns the versions whose request has the shape of a body. It is empty for a request
	// of a version that is not served, which Shape describes.
	Accepts(body []byte) Versions
	// Readers returns the versions whose clients can read a response that is for clients of v.
	Readers(v Version) Versions
}

// Call is a function of the master with the types of its request and response. Its methods are safe
// for concurrent use.
type Call[Q, R any] struct {
	name      string
	id        uint32
	versions  Versions
	request   func(*Q, *Coder) // nil if the function has no arguments
	response  func(*R, *Coder)
	described sync.Once
	schemas   [served]struct{ request, response structpack.Schema }
}

// namespace qualifies the names of the functions.
const namespace = "mooncake::WrappedMasterService::"

func define[Q, R any](name string, since Version, request func(*Q, *Coder), response func(*R, *Coder)) *Call[Q, R] {
	return &Call[Q, R]{name: name, id: structpack.Name(namespace + name), versions: Since(since), request: request, response: response}
}

// Name returns the name without the name space.
func (c *Call[Q, R]) Name() string { return c.name }

// ID returns the number by which clients call the function.
func (c *Call[Q, R]) ID() uint32 { return c.id }

// Versions returns those that have the function.
func (c *Call[Q, R]) Versions() Versions { return c.versions }

// Accepts returns the versions whose request has the shape of a body.
func (c *Call[Q, R]) Accepts(body []byte) Versions {
	if c.request == nil {
		return c.versions
	}
	m, err := structpack.Open(body)
	if err != nil {
		return 0
	}
	return c.having(m.Hash)
}

func (c *Call[Q, R]) having(hash uint32) (s Versions) {
	c.describe()
	for i := range c.schemas {
		if v := oldest + Version(i); c.versions.Has(v) && c.schemas[i].request.Hash == hash {
			s |= Only(v)
		}
	}
	return s
}

func (c *Call[Q, R]) describe() {
	c.described.Do(func() {
		for i := range c.schemas {
			if v := oldest + Version(i); c.versions.Has(v) {
				if c.request != nil {
					c.schemas[i].request = structpack.Describe(v, c.request)
				}
				c.schemas[i].response = structpack.Describe(v, c.response)
			}
		}
	})
}

// DecodeRequest decodes the body of a request, and returns the versions whose request has its shape.
// The strings share one copy of the body, except in requests that start puts.
func (c *Call[Q, R]) DecodeRequest(body []byte, q *Q) (Versions, error) {
	if c.request == nil {
		return c.versions, nil
	}
	m, err := structpack.Open(body)
	if err != nil {
		return 0, fmt.Errorf("request of %s: %w", c.name, err)
	}
	s := c.having(m.Hash)
	if s == 0 {
		return 0, errs.WithHint(errs.New(errs.InvalidVersion, "decode a request of "+c.name, "its arguments are those of no version that is served: %s", Shape(body)),
			"use a client of a release from 0.3.9 to 0.3.13.post1, except 0.3.10")
	}
	if err := structpack.Decode(m, s.Newest(), q, c.request); err != nil {
		return 0, fmt.Errorf("request of %s: %w", c.name, err)
	}
	return s, nil
}

// AppendRequest encodes a request of a version and appends it to out. It fails if the request
// has a value that the version does not know.
func (c *Call[Q, R]) AppendRequest(out []byte, v Version, q *Q) ([]byte, error) {
	if err := c.check(v); err != nil || c.request == nil {
		return out, err
	}
	return structpack.Append(out, &c.schemas[v-oldest].request, false, q, c.request)
}

// DecodeResponse decodes the body of a response of a version.
func (c *Call[Q, R]) DecodeResponse(body []byte, v Version, r *R) error {
	if err := c.check(v); err != nil {
		return err
	}
	m, err := structpack.Open(body)
	if err != nil {
		return fmt.Errorf("response of %s: %w", c.name, err)
	}
	if want := c.schemas[v-oldest].response.Hash; m.Hash != want {
		return errs.New(errs.InvalidVersion, "decode a response of "+c.name, "it has the shape %08x, in version %d %08x", m.Hash, v, want)
	}
	return structpack.Decode(m, v, r, c.response)
}

// AppendResponse encodes a response of a version and appends it to out. It fails if the response
// has a value that the version does not know.
func (c *Call[Q, R]) AppendResponse(out []byte, v Version, r *R) ([]byte, error) {
	if err := c.check(v); err != nil {
		return out, err
	}
	return structpack.Append(out, &c.schemas[v-oldest].response, false, r, c.response)
}

func (c *Call[Q, R]) check(v Version) error {
	if !c.versions.Has(v) {
		return errs.New(errs.InvalidVersion, "encode or decode "+c.name, "version %d does not have it, versions %v do", v, c.versions)
	}
	c.describe()
	return nil
}
