package calls

import (
	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
	"github.com/mooncake-go/mooncake/core/model"
)

// The requests on objects. A version before V12 has no tenants: Tenant is empty then.
type (
	// ExistKeyRequest asks for one object.
	ExistKeyRequest struct{ Key, Tenant string }
	// BatchExistKeyRequest asks for several objects.
	BatchExistKeyRequest struct {
		Keys   []string
		Tenant string
	}
	// PutStartRequest begins a put or an upsert.
	PutStartRequest struct {
		Client model.UUID
		Key    string
		Size   uint64 // in bytes
		Config ReplicateConfig
		Tenant string
	}
	// BatchPutStartRequest begins several, one for each key.
	BatchPutStartRequest struct {
		Client model.UUID
		Keys   []string
		Sizes  []uint64 // as many as the client sent, not necessarily as many as keys
		Config ReplicateConfig
		Tenant string
	}
	// PutEndRequest ends the put or upsert of an object.
	PutEndRequest struct {
		Client model.UUID
		ObjectMeta
		Type   ReplicaType
		Tenant string
	}
	// BatchPutEndRequest ends several puts.
	BatchPutEndRequest struct {
		Client  model.UUID
		Objects []ObjectMeta
		Type    ReplicaType // TypeMemory before V11, which do not send it
		Tenant  string
	}
	// PutRevokeRequest revokes the put or upsert of an object.
	PutRevokeRequest struct {
		Client model.UUID
		Key    string
		Type   ReplicaType
		Tenant string
	}
	// BatchPutRevokeRequest revokes several puts.
	BatchPutRevokeRequest struct {
		Client model.UUID
		Keys   []string
		Type   ReplicaType // TypeMemory before V11, which do not send it
		Tenant string
	}
	// BatchUpsertEndRequest ends several upserts.
	BatchUpsertEndRequest struct {
		Client  model.UUID
		Objects []ObjectMeta
		Tenant  string
	}
	// BatchUpsertRevokeRequest revokes several upserts.
	BatchUpsertRevokeRequest struct {
		Client model.UUID
		Keys   []string
		Tenant string
	}
	// RemoveRequest removes the object of a key, or the objects whose keys match an expression.
	RemoveRequest struct {
		Key    string
		Force  bool // even if it has a lease
		Tenant string
	}
	// RemoveAllRequest removes every object of a tenant.
	RemoveAllRequest struct {
		Force  bool
		Tenant string
	}
	// BatchRemoveRequest removes several objects.
	BatchRemoveRequest struct {
		Keys   []string
		Force  bool
		Tenant string
	}
	// BatchReplicaClearRequest removes the replicas of objects, in one segment or in all.
	BatchReplicaClearRequest struct {
		Keys    []string
		Client  model.UUID
		Segment string // its name, empty for all
	}
	// EvictDiskReplicaRequest says that a client has removed a replica from its disk.
	EvictDiskReplicaRequest struct {
		Client model.UUID
		Key    string
		Tenant string
		Type   ReplicaType
	}
	// BatchEvictDiskReplicaRequest says so of several.
	BatchEvictDiskReplicaRequest struct {
		Client model.UUID
		Keys   []string
		Tenant string
		Type   ReplicaType
	}
)

// The names of requests that have the shape of another.
type (
	// GetReplicaListRequest asks for one object.
	GetReplicaListRequest = ExistKeyRequest
	// GetReplicaListByRegexRequest has an expression as key.
	GetReplicaListByRegexRequest = ExistKeyRequest
	// BatchGetReplicaListRequest asks for several objects.
	BatchGetReplicaListRequest = BatchExistKeyRequest
	// UpsertStartRequest begins an upsert.
	UpsertStartRequest = PutStartRequest
	// BatchUpsertStartRequest begins several upserts.
	BatchUpsertStartRequest = BatchPutStartRequest
	// UpsertEndRequest ends an upsert.
	UpsertEndRequest = PutEndRequest
	// UpsertRevokeRequest revokes an upsert.
	UpsertRevokeRequest = PutRevokeRequest
	// RemoveByRegexRequest has an expression as key.
	RemoveByRegexRequest = RemoveRequest
)

func (r *ExistKeyRequest) walk(c *Coder) { walkWithTenant(c, &r.Key, walkString, &r.Tenant) }

func (r *BatchExistKeyRequest) walk(c *Coder) { walkWithTenant(c, &r.Keys, walkStrings, &r.Tenant) }

func (r *PutStartRequest) walk(c *Coder) {
	c.OwnStrings() // The master keeps the key.
	c.Begin()
	c.UUID(&r.Client)
	c.String(&r.Key)
	c.Uint64(&r.Size)
	r.Config.walk(c)
	walkTenant(c, &r.Tenant)
	c.End()
}

func (r *BatchPutStartRequest) walk(c *Coder) {
	c.OwnStrings() // The master keeps keys, each for as long as its object.
	c.Begin()
	c.UUID(&r.Client)
	c.Strings(&r.Keys)
	c.Uint64s(&r.Sizes)
	r.Config.walk(c)
	walkTenant(c, &r.Tenant)
	c.End()
}

func (r *PutEndRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	r.ObjectMeta.walk(c)
	c.Int32((*int32)(&r.Type))
	walkTenant(c, &r.Tenant)
	c.End()
}

func (r *BatchPutEndRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	structpack.Vector(c, &r.Objects, (*ObjectMeta).walk)
	if c.Version() >= V11 {
		c.Int32((*int32)(&r.Type))
	}
	walkTenant(c, &r.Tenant)
	c.End()
}

func (r *PutRevokeRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.String(&r.Key)
	c.Int32((*int32)(&r.Type))
	walkTenant(c, &r.Tenant)
	c.End()
}

func (r *BatchPutRevokeRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.Strings(&r.Keys)
	if c.Version() >= V11 {
		c.Int32((*int32)(&r.Type))
	}
	walkTenant(c, &r.Tenant)
	c.End()
}

func (r *BatchUpsertEndRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	structpack.Vector(c, &r.Objects, (*ObjectMeta).walk)
	walkTenant(c, &r.Tenant)
	c.End()
}

func (r *BatchUpsertRevokeRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.Strings(&r.Keys)
	walkTenant(c, &r.Tenant)
	c.End()
}

func (r *RemoveRequest) walk(c *Coder) {
	c.Begin()
	c.String(&r.Key)
	c.Bool(&r.Force)
	walkTenant(c, &r.Tenant)
	c.End()
}

func (r *RemoveAllRequest) walk(c *Coder) { walkWithTenant(c, &r.Force, walkBool, &r.Tenant) }

func (r *BatchRemoveRequest) walk(c *Coder) {
	c.Begin()
	c.Strings(&r.Keys)
	c.Bool(&r.Force)
	walkTenant(c, &r.Tenant)
	c.End()
}

func (r *BatchReplicaClearRequest) walk(c *Coder) {
	c.Begin()
	c.Strings(&r.Keys)
	c.UUID(&r.Client)
	c.String(&r.Segment)
	c.End()
}

func (r *EvictDiskReplicaRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.String(&r.Key)
	walkTenant(c, &r.Tenant)
	c.Int32((*int32)(&r.Type))
	c.End()
}

func (r *BatchEvictDiskReplicaRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.Strings(&r.Keys)
	walkTenant(c, &r.Tenant)
	c.Int32((*int32)(&r.Type))
	c.End()
}
