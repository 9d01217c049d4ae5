package tasks

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// MaxPayload is the most bytes of a payload that are decoded, more than EncodePayload makes
// of the largest task.
const MaxPayload = 2 << 20

// payload is a task in upstream's JSON: targets for a copy, target for a move.
type payload struct {
	Tenant  string    `json:"tenant_id"`
	Key     string    `json:"key"`
	Source  string    `json:"source"`
	Targets *[]string `json:"targets,omitempty"`
	Target  *string   `json:"target,omitempty"`
}

// EncodePayload returns a task in the JSON form in which upstream's clients get it:
//
//	copy: {"tenant_id":"default","key":"k","source":"","targets":["b:1","c:1"]}
//	move: {"tenant_id":"default","key":"k","source":"a:1","target":"b:1"}
//
// InvalidParams for a task that Validate refuses, SerializeUnsupported for one with a key
// or name that is not UTF-8, which JSON cannot carry.
func EncodePayload(spec model.TaskSpec) ([]byte, error) {
	const op = "task: encode payload"
	if err := Validate(spec); err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	for _, s := range append([]string{spec.Tenant, spec.Key, spec.Source}, spec.Targets...) {
		if !utf8.ValidString(s) {
			return nil, errs.New(errs.SerializeUnsupported, op, "%q is not UTF-8, and JSON holds nothing else", s)
		}
	}
	p := payload{Tenant: spec.Tenant, Key: spec.Key, Source: spec.Source}
	if p.Tenant == "" {
		p.Tenant = model.DefaultTenant
	}
	if spec.Kind == model.MoveObject {
		p.Target = &spec.Targets[0]
	} else {
		p.Targets = &spec.Targets
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, errs.Wrap(errs.SerializeFail, op, err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// DecodePayload is the inverse; the tenant of the result is never empty. Fields that it
// does not know are passed over: newer peers send more. DeserializeFail for anything that
// is not a valid task of that kind.
func DecodePayload(kind model.CopyKind, data []byte) (model.TaskSpec, error) {
	const op = "task: decode payload"
	if len(data) > MaxPayload {
		return model.TaskSpec{}, errs.New(errs.DeserializeFail, op, "it has %d bytes; the most is %d", len(data), MaxPayload)
	}
	if !utf8.Valid(data) {
		return model.TaskSpec{}, errs.New(errs.DeserializeFail, op, "it is not UTF-8")
	}
	var p payload
	if err := json.Unmarshal(data, &p); err != nil {
		return model.TaskSpec{}, errs.Wrap(errs.DeserializeFail, op, err)
	}
	spec := model.TaskSpec{Kind: kind, Tenant: p.Tenant, Key: p.Key, Source: p.Source}
	if spec.Tenant == "" {
		spec.Tenant = model.DefaultTenant
	}
	switch {
	case kind == model.MoveObject && p.Target != nil && p.Targets == nil:
		spec.Targets = []string{*p.Target}
	case kind == model.CopyObject && p.Targets != nil && p.Target == nil:
		spec.Targets = *p.Targets
	default:
		return model.TaskSpec{}, errs.New(errs.DeserializeFail, op, "a copy has \"targets\" and a move \"target\", and neither has both")
	}
	if err := Validate(spec); err != nil {
		return model.TaskSpec{}, errs.Wrap(errs.DeserializeFail, op, err)
	}
	return spec, nil
}
