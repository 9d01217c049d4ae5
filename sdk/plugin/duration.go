package plugin

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a length of time in a plugin's configuration. It is text everywhere, as time.Duration
// prints and parses it: "30s", "1m30s", "250ms". A bare number is refused, because its unit is not
// visible. Negative durations are parsed; a plugin refuses them in Validate.
type Duration time.Duration

// String implements fmt.Stringer.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s is not a duration; write it as text with a unit, such as \"30s\" or \"1m30s\"", short(text))
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration; write it with a unit, such as \"30s\" or \"1m30s\"", short([]byte(s)))
	}
	*d = Duration(v)
	return nil
}

// short truncates a long value for an error.
func short(text []byte) string {
	const most = 64
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}
