package calls

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/mooncake-go/mooncake/core/model"
)

// since has the fields that messages of older versions do not have.
var since = map[string]Version{
	"Segment.HostID": V12, "TaskAssignment.Retries": V10, "ReplicaList.Checksum": V13, "ObjectMeta.Checksum": V13,
	"BatchPutEndRequest.Type": V11, "BatchPutRevokeRequest.Type": V11,
	"ReplicateConfig.NoFReplicas": V11, "ReplicateConfig.DFSReplicas": V13, "ReplicateConfig.SoftPinTTL": V13,
	"ReplicateConfig.HardPin": V10, "ReplicateConfig.PreferredNoFSegments": V11, "ReplicateConfig.DataType": V11,
	"ReplicateConfig.HostID": V12, "ReplicateConfig.Groups": V12,
}

// fieldsOf returns the indexes of the fields that a struct has in a version, in wire order.
func fieldsOf(v Version, t reflect.Type) (fields []int) {
	for i := range t.NumField() {
		name := t.Field(i).Name
		if v >= since[t.Name()+"."+name] && (name != "Tenant" || v >= V12) {
			fields = append(fields, i)
		}
	}
	return fields
}

// render writes a message as the captures do: structs are lists, an identifier is U<first>-<second>,
// an alternative and an expected value have their names. It knows the messages from their declaration
// alone, not from their walks.
func render(v Version, x reflect.Value) any {
	switch m := x.Interface().(type) {
	case model.UUID:
		return fmt.Sprintf("U%016x-%016x", m.Hi, m.Lo)
	case Void:
		return nil
	case SoftPin:
		if v < V13 {
			return m == SoftPinEnable
		}
		return m
	case ObjectMeta:
		if v < V13 {
			return m.Key
		}
	case Descriptor:
		return []any{m.ID, renderKind(v, &m), m.Status}
	case string, bool:
		return m
	}
	switch x.Kind() {
	case reflect.Slice:
		return renderSlice(v, x)
	case reflect.Struct:
		return renderStruct(v, x)
	}
	return x.Interface()
}

func renderStruct(v Version, x reflect.Value) any {
	if code := x.FieldByName("Code"); code.IsValid() {
		if code.Int() != 0 {
			return []any{"err", code.Int()}
		}
		return []any{"ok", render(v, x.FieldByName("Value"))}
	}
	if present := x.FieldByName("Present"); present.IsValid() {
		if !present.Bool() {
			return nil
		}
		return render(v, x.FieldByName("Value"))
	}
	list := []any{}
	for _, i := range fieldsOf(v, x.Type()) {
		list = append(list, render(v, x.Field(i)))
	}
	return list
}

func renderSlice(v Version, x reflect.Value) any {
	if entries, ok := x.Interface().([]OffloadTask); ok && v < V12 {
		m := map[string]int64{}
		for _, e := range entries {
			m["'"+e.Key+"'"] = e.Size
		}
		return m
	}
	switch x.Interface().(type) {
	case []ClientIPs, []KeyReplicas:
		m := map[string]any{}
		for i := range x.Len() {
			m[fmt.Sprintf("'%v'", x.Index(i).Field(0))] = render(v, x.Index(i).Field(1))
		}
		return m
	}
	list := []any{}
	for i := range x.Len() {
		list = append(list, render(v, x.Index(i)))
	}
	return list
}

func renderKind(v Version, d *Descriptor) any {
	index := slices.Index(kindsOf(v), d.Kind)
	var fields any
	switch d.Kind {
	case TypeMemory, TypeNoF:
		fields = []any{render(v, reflect.ValueOf(d.Buffer))}
	case TypeDisk:
		fields = render(v, reflect.ValueOf(*d.Disk))
	case TypeLocalDisk:
		fields = render(v, reflect.ValueOf(*d.LocalDisk))
	case TypeDFS:
		fields = render(v, reflect.ValueOf(*d.DFS))
	}
	return []any{fmt.Sprintf("alt%d", index), fields}
}

// renderRequest writes a request as render does. A single argument is not in a list, and in a request
// the objects before V12 are a list of keys.
func renderRequest(v Version, x reflect.Value) any {
	if r, ok := x.Interface().(NotifyOffloadSuccessRequest); ok && v < V12 {
		keys := []string{}
		for _, o := range r.Objects {
			keys = append(keys, o.Key)
		}
		return []any{render(v, reflect.ValueOf(r.Client)), keys, render(v, reflect.ValueOf(r.Places))}
	}
	fields := fieldsOf(v, x.Type())
	if len(fields) == 1 {
		return render(v, x.Field(fields[0]))
	}
	return render(v, x)
}
