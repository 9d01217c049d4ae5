package calls

import (
	"slices"

	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ReplicaStatus is the state of a replica.
type ReplicaStatus int32

// The states of a replica. Clients read what is complete.
const (
	StatusProcessing ReplicaStatus = 2
	StatusComplete   ReplicaStatus = 3
)

// Buffer is a range of memory, or of a NoF segment.
type Buffer struct {
	Size     uint64
	Address  uint64 // at the owner
	Protocol string
	Endpoint string // the owner's transfer engine
}

// DiskFile is a replica in a file that all clients reach.
type DiskFile struct {
	Path string
	Size uint64
}

// LocalDisk is a replica on a disk of one client.
type LocalDisk struct {
	Client   model.UUID
	Size     uint64
	Endpoint string
}

// DFSFile is a replica in a distributed file system.
type DFSFile struct {
	Path        string
	Offset      uint64
	Size        uint64
	AlignedSize uint64
	Shard       int32
}

// Descriptor tells a client where a replica is. Kind says which of the alternatives it has; those of
// the others are ignored, and a missing one is encoded as zeros.
type Descriptor struct {
	ID        uint64
	Kind      ReplicaType // not TypeAll
	Buffer    Buffer      // TypeMemory and TypeNoF
	Disk      *DiskFile
	LocalDisk *LocalDisk
	DFS       *DFSFile
	Status    ReplicaStatus
}

// kindsOf returns the alternatives of a descriptor by their index.
func kindsOf(v Version) []ReplicaType {
	switch {
	case v >= V13:
		return kinds13
	case v >= V11:
		return kinds13[:4]
	}
	return kinds9
}

var (
	kinds9  = []ReplicaType{TypeMemory, TypeDisk, TypeLocalDisk}
	kinds13 = []ReplicaType{TypeMemory, TypeNoF, TypeDisk, TypeLocalDisk, TypeDFS}
)

func (d *Descriptor) walk(c *Coder) {
	c.Begin()
	c.Uint64(&d.ID)
	kinds := kindsOf(c.Version())
	index := slices.Index(kinds, d.Kind)
	if index < 0 {
		c.Fail(errs.New(errs.InvalidReplica, "encode a replica descriptor", "version %d has no replicas of kind %d", c.Version(), d.Kind))
		return
	}
	structpack.Variant(c, d, index, len(kinds), (*Descriptor).walkKind)
	c.Int32((*int32)(&d.Status))
	c.End()
}

func (d *Descriptor) walkKind(c *Coder, index int) {
	kind := kindsOf(c.Version())[index]
	if c.Decoding() {
		d.Kind = kind
	}
	c.Begin()
	switch kind {
	case TypeMemory, TypeNoF:
		d.Buffer.walk(c)
	case TypeDisk:
		alternative(c, &d.Disk, (*DiskFile).walk)
	case TypeLocalDisk:
		alternative(c, &d.LocalDisk, (*LocalDisk).walk)
	case TypeDFS:
		alternative(c, &d.DFS, (*DFSFile).walk)
	}
	c.End()
}

// alternative visits what p points to. Only decoding changes p.
func alternative[T any](c *Coder, p **T, walk func(*T, *Coder)) {
	v := *p
	if v == nil {
		v = new(T)
	}
	if walk(v, c); c.Decoding() {
		*p = v
	}
}

func (b *Buffer) walk(c *Coder) {
	c.Begin()
	c.Uint64(&b.Size)
	c.Uint64(&b.Address)
	c.String(&b.Protocol)
	c.String(&b.Endpoint)
	c.End()
}

func (d *DiskFile) walk(c *Coder) {
	c.String(&d.Path)
	c.Uint64(&d.Size)
}

func (d *LocalDisk) walk(c *Coder) {
	c.UUID(&d.Client)
	c.Uint64(&d.Size)
	c.String(&d.Endpoint)
}

func (d *DFSFile) walk(c *Coder) {
	c.String(&d.Path)
	c.Uint64(&d.Offset)
	c.Uint64(&d.Size)
	c.Uint64(&d.AlignedSize)
	c.Int32(&d.Shard)
}

// ReplicaList is where the replicas of an object are, and for how long they stay there.
type ReplicaList struct {
	Replicas []Descriptor
	LeaseTTL uint64           // in milliseconds
	Checksum Optional[uint64] // since V13
}

func (r *ReplicaList) walk(c *Coder) {
	c.Begin()
	structpack.Vector(c, &r.Replicas, (*Descriptor).walk)
	c.Uint64(&r.LeaseTTL)
	if c.Version() >= V13 {
		structpack.Optional(c, &r.Checksum.Present, &r.Checksum.Value, walkUint64)
	}
	c.End()
}

// KeyReplicas are the replicas of an object that an expression has matched.
type KeyReplicas struct {
	Key      string
	Replicas []Descriptor
}

func (k *KeyReplicas) walk(c *Coder) {
	c.String(&k.Key)
	structpack.Vector(c, &k.Replicas, (*Descriptor).walk)
}
