package calls

import (
	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Void is a value without content.
type Void struct{}

// Optional is a value that may be missing.
type Optional[T any] struct {
	Value   T
	Present bool
}

// Expected is a value, or the error code that is there instead of it.
type Expected[T any] struct {
	Value T
	Code  errs.Code // OK if there is a value
}

// Segment is memory that a client contributes.
type Segment struct {
	ID       model.UUID
	Name     string
	Base     uint64 // its address at the client
	Size     uint64 // in bytes
	Endpoint string // of the transfer engine
	Protocol string // "tcp"
	HostID   string // since V12
}

// NoFSegment is a segment on a device that is reached over NVMe over Fabrics.
type NoFSegment struct {
	ID       model.UUID
	Name     string
	Base     uint64
	Size     uint64
	Endpoint string
}

// NoFOwner is the client that has mounted a NoF segment.
type NoFOwner struct {
	Segment model.UUID
	Client  model.UUID
}

// SoftPin is what a put does with the soft pin of its object.
type SoftPin uint8

// Before V13, a put either pins (SoftPinEnable) or not (SoftPinPreserve).
const (
	SoftPinPreserve SoftPin = 0
	SoftPinEnable   SoftPin = 1
	SoftPinDisable  SoftPin = 2
)

// ReplicateConfig is how a client wants its object to be stored.
type ReplicateConfig struct {
	Replicas             uint64
	NoFReplicas          uint64 // since V11
	DFSReplicas          uint64 // since V13
	SoftPin              SoftPin
	SoftPinTTL           Optional[uint64] // in milliseconds, since V13
	HardPin              bool             // since V10
	PreferredSegments    []string
	PreferredSegment     string
	PreferredNoFSegments []string // since V11
	PreferSameNode       bool
	DataType             uint8              // since V11
	HostID               string             // since V12
	Groups               Optional[[]string] // since V12
}

// ObjectMeta names an object whose put ends.
type ObjectMeta struct {
	Key      string
	Checksum Optional[uint64] // since V13
}

// ReplicaType is the kind of the replicas that a call is about.
type ReplicaType int32

// The kinds of replicas.
const (
	TypeMemory    ReplicaType = 0
	TypeDisk      ReplicaType = 1
	TypeLocalDisk ReplicaType = 2
	TypeNoF       ReplicaType = 3 // since V11
	TypeAll       ReplicaType = 4 // since V11
	TypeDFS       ReplicaType = 100
)

func (s *Segment) walk(c *Coder) {
	c.Begin()
	c.UUID(&s.ID)
	c.String(&s.Name)
	c.Uint64(&s.Base)
	c.Uint64(&s.Size)
	c.String(&s.Endpoint)
	c.String(&s.Protocol)
	if c.Version() >= V12 {
		c.String(&s.HostID)
	}
	c.End()
}

func (s *NoFSegment) walk(c *Coder) {
	c.Begin()
	c.UUID(&s.ID)
	c.String(&s.Name)
	c.Uint64(&s.Base)
	c.Uint64(&s.Size)
	c.String(&s.Endpoint)
	c.End()
}

func (o *NoFOwner) walk(c *Coder) {
	c.Begin()
	c.UUID(&o.Segment)
	c.UUID(&o.Client)
	c.End()
}

func (r *ReplicateConfig) walk(c *Coder) {
	c.Begin()
	c.Uint64(&r.Replicas)
	if c.Version() >= V11 {
		c.Uint64(&r.NoFReplicas)
	}
	if c.Version() >= V13 {
		c.Uint64(&r.DFSReplicas)
	}
	r.walkPins(c)
	c.Strings(&r.PreferredSegments)
	c.String(&r.PreferredSegment)
	if c.Version() >= V11 {
		c.Strings(&r.PreferredNoFSegments)
	}
	c.Bool(&r.PreferSameNode)
	if c.Version() >= V11 {
		c.Uint8(&r.DataType)
	}
	if c.Version() >= V12 {
		c.String(&r.HostID)
		structpack.Optional(c, &r.Groups.Present, &r.Groups.Value, walkStrings)
	}
	c.End()
}

func (r *ReplicateConfig) walkPins(c *Coder) {
	if c.Version() >= V13 {
		c.Uint8((*uint8)(&r.SoftPin))
		structpack.Optional(c, &r.SoftPinTTL.Present, &r.SoftPinTTL.Value, walkUint64)
	} else {
		pin := r.SoftPin == SoftPinEnable
		if c.Bool(&pin); pin {
			r.SoftPin = SoftPinEnable
		}
	}
	if c.Version() >= V10 {
		c.Bool(&r.HardPin)
	}
}

// walk visits the key alone before V13.
func (o *ObjectMeta) walk(c *Coder) {
	if c.Version() < V13 {
		c.String(&o.Key)
		return
	}
	c.Begin()
	c.String(&o.Key)
	structpack.Optional(c, &o.Checksum.Present, &o.Checksum.Value, walkUint64)
	c.End()
}

func walkBool(v *bool, c *Coder)        { c.Bool(v) }
func walkInt64(v *int64, c *Coder)      { c.Int64(v) }
func walkUint64(v *uint64, c *Coder)    { c.Uint64(v) }
func walkString(v *string, c *Coder)    { c.String(v) }
func walkStrings(v *[]string, c *Coder) { c.Strings(v) }
func walkUUID(v *model.UUID, c *Coder)  { c.UUID(v) }
func walkVoid(_ *Void, c *Coder)        { c.Void() }

// list returns the walk of a list.
func list[T any](walk func(*T, *Coder)) func(*[]T, *Coder) {
	return func(v *[]T, c *Coder) { structpack.Vector(c, v, walk) }
}

// expected returns the walk of a value or an error.
func expected[T any](walk func(*T, *Coder)) func(*Expected[T], *Coder) {
	return func(v *Expected[T], c *Coder) { structpack.Expected(c, &v.Code, &v.Value, walk) }
}

// walkTenant visits the tenant of a call, which calls before V12 do not have.
func walkTenant(c *Coder, tenant *string) {
	if c.Version() >= V12 {
		c.String(tenant)
	}
}

// walkWithTenant visits the arguments of a call that had one before V12, and then a tenant as well.
func walkWithTenant[T any](c *Coder, v *T, walk func(*T, *Coder), tenant *string) {
	if c.Version() < V12 {
		walk(v, c)
		return
	}
	c.Begin()
	walk(v, c)
	c.String(tenant)
	c.End()
}
