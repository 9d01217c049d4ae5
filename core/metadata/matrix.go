package metadata

import (
	"encoding/json"
	"slices"
)

// parseMatrix reads a priority matrix: an object of locations, each with exactly two lists
// of device names. It returns the form that is published, compact with sorted keys, and
// the names in it; nil for none, which upstream writes as null.
func parseMatrix(raw json.RawMessage) (json.RawMessage, []string, error) {
	if len(raw) == 0 {
		return nil, nil, nil
	}
	var m map[string][][]string
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, nil, invalid("priority_matrix: %w", err)
	}
	if len(m) == 0 {
		return nil, nil, nil
	}
	var names []string
	for location, lists := range m {
		if location == "" || len(lists) != 2 || lists[0] == nil || lists[1] == nil {
			return nil, nil, invalid("priority_matrix: %s does not have two lists, of preferred and of other devices", quote(location))
		}
		for _, list := range lists {
			if slices.Contains(list, "") || !validText(list...) {
				return nil, nil, invalid("priority_matrix: %s has a device without a name", quote(location))
			}
			names = append(names, list...)
		}
	}
	out, err := marshal(m)
	return out, names, err
}
