package s3

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Config is the plugin's part of the configuration, plugins.tier.s3.config.
type Config struct {
	Endpoint string `json:"endpoint" required:"true" doc:"URL of the server: http://HOST:PORT or https://HOST"`
	Region   string `json:"region" default:"us-east-1" doc:"Region of the bucket"`
	// Bucket exists. The objects are below Prefix, which no other process uses at the same time.
	Bucket string `json:"bucket" required:"true" doc:"An existing bucket"`
	Prefix string `json:"prefix" default:"mooncake" length:"1..512" doc:"What the names of the objects begin with; each store needs one of its own"`
	// AccessKey, SecretKey and SessionToken are credentials. Without them, those of the environment
	// (AWS_ACCESS_KEY_ID and so on) or of the file ~/.aws/credentials are used.
	AccessKey     string          `json:"access_key" doc:"Access key; empty for AWS_ACCESS_KEY_ID, or for ~/.aws/credentials"`
	SecretKey     string          `json:"secret_key" doc:"Secret key; empty for AWS_SECRET_ACCESS_KEY, or for ~/.aws/credentials"`
	SessionToken  string          `json:"session_token" doc:"Session token of temporary credentials"`
	CapacityBytes uint64          `json:"capacity_bytes" default:"100GiB" range:"4MiB.." doc:"What the records may take together"`
	Requests      int             `json:"requests" default:"16" range:"1..256" doc:"Operations that are at the server at once"`
	Timeout       plugin.Duration `json:"timeout" default:"30s" range:"100ms..10m" doc:"ends operations without a deadline, and each other call"`
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	u, err := url.Parse(c.Endpoint)
	switch {
	case c.Endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != ""):
		return fmt.Errorf("endpoint must be http://HOST[:PORT] or https://HOST[:PORT]")
	case c.Bucket != "" && !bucketName.MatchString(c.Bucket):
		return fmt.Errorf("bucket is %q, must be the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens", c.Bucket)
	case strings.Trim(c.Prefix, "/") != c.Prefix || strings.Contains(c.Prefix, "//"):
		return fmt.Errorf("prefix is %q, must not have / at its ends or an empty part", c.Prefix)
	case (c.AccessKey == "") != (c.SecretKey == ""):
		return fmt.Errorf("access_key and secret_key go together: set both or none")
	case c.SessionToken != "" && c.AccessKey == "":
		return fmt.Errorf("session_token needs access_key and secret_key")
	}
	return nil
}
