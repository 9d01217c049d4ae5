package config

import "regexp"

var (
	secretKey   = regexp.MustCompile(`(?i)(password|passwd|secret|token|credential|access_?key|private_?key|api_?key)`)
	urlUserinfo = regexp.MustCompile(`(://[^/?#\s:@]*):[^/?#\s]*@`)
)

const redacted = "******"

// Redact returns the value as it may be shown: hidden where the key is named like a
// secret, without the password where it is a URL that carries one.
func Redact(key, value string) string {
	if value != "" && secretKey.MatchString(key) {
		return redacted
	}
	return urlUserinfo.ReplaceAllString(value, "$1:"+redacted+"@")
}
