package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Control carries out a rare method. args is a JSON object, and so is the answer, which always has
// "code": 0 or the code of the error. Numbers are whole and exact to 64 bits; a UUID is two of them.
//
//	create_copy_task {key, targets}     id: of the task; targets are names of segments
//	create_move_task {key, source, target}
//	                                    id
//	query_task {id}                     task: {id, type, status, created_at_ms_epoch,
//	                                    last_updated_at_ms_epoch, assigned_client, message}
//	mount_segment {path, size, offset, protocol, location}
//	                                    segment_ids: of the memory of a file, size bytes from offset on
//	allocate_and_mount_segment {size, protocol, location}
//	                                    segment_ids, allocated_size
//	unmount_segment {segment_ids, grace_period_seconds}
//	unmount_and_free_segment            the same: allocated or mapped memory is freed with its segment
//	unmount_local_disk_segment {grace_period_seconds}
//	                                    0 also if the node has no storage tier
//	alloc_from_mem_pool {size}          address: memory that is registered, and lives until the store closes
//	refuse {why}                        -600, with this reason: an error that the caller found before it called
//	get_offload_rpc_read_count {}       count: of the calls that had nodes stage what lies on storage
//	                                    tiers; 0 for a dummy client, whose mooncake_client makes them
//
// The answer of a store that is not set up is -600. For the methods of segments it is -1, also with
// a dummy client.
func (s *Store) Control(method, args string) string {
	out := s.control(method, []byte(args))
	text, err := json.Marshal(out)
	if err != nil {
		return fmt.Sprintf(`{"code":%d}`, s.note(errs.Wrap(errs.Internal, "control "+method, err)))
	}
	return string(text)
}

// fields are the fields of an answer.
type fields map[string]any

func (s *Store) control(method string, args []byte) (out fields) {
	var code [1]Code
	defer func() {
		if out == nil {
			out = fields{}
		}
		out["code"] = code[0]
	}()
	defer s.guard(code[:])
	do := s.methods(method)
	if do == nil {
		code[0] = s.note(errs.New(errs.NotSupported, "control", "there is no method %q", method))
		return nil
	}
	out, err := do(context.Background(), args)
	code[0] = s.note(err)
	return out
}

type method func(ctx context.Context, args []byte) (fields, error)

func (s *Store) methods(name string) method {
	switch name {
	case "create_copy_task":
		return withPool(s, createCopy)
	case "create_move_task":
		return withPool(s, createMove)
	case "query_task":
		return withPool(s, queryTask)
	case "mount_segment":
		return withNode(s, mountFile)
	case "allocate_and_mount_segment":
		return withNode(s, mountFresh)
	case "unmount_segment", "unmount_and_free_segment":
		return withNode(s, unmount)
	case "unmount_local_disk_segment":
		return withNode(s, unmountTiers)
	case "alloc_from_mem_pool":
		return withPool(s, s.allocate)
	case "get_offload_rpc_read_count":
		return withPool(s, countStageCalls)
	case "refuse":
		return refuse
	default:
		return nil
	}
}

// refuse fails with the reason that the caller found before it called.
func refuse(_ context.Context, raw []byte) (fields, error) {
	var args struct {
		Why string `json:"why"`
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "control: read the arguments", err)
	}
	return nil, errs.New(errs.InvalidParams, "store", "%s", args.Why)
}

// none stands for no arguments.
type none struct{}

// withPool decodes the arguments of a method and finds the store that is set up.
func withPool[A any](s *Store, do func(context.Context, *opened, A) (fields, error)) method {
	return func(ctx context.Context, raw []byte) (fields, error) {
		var args A
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, errs.Wrap(errs.InvalidParams, "control: read the arguments", err)
		}
		o := s.current.Load()
		if o == nil {
			return nil, errNotSetup
		}
		return do(ctx, o, args)
	}
}

var errNoNode = errs.Wrap(errs.Internal, "segments", errors.New("a store that is not set up, or goes through a mooncake_client, has none of its own"))

// withNode is withPool for methods that need a node in this process.
func withNode[A any](s *Store, do func(context.Context, *opened, A) (fields, error)) method {
	return func(ctx context.Context, raw []byte) (fields, error) {
		if o := s.current.Load(); o == nil || o.node == nil {
			return nil, errNoNode
		}
		return withPool(s, do)(ctx, raw)
	}
}
