package upstream

// ProcessFlags returns the flags that every upstream binary has from glog, gflags and its
// memory allocator. Those that only print help are not among them.
func ProcessFlags() []Name {
	return []Name{
		{Name: "v", Type: Int32, Default: "0", Key: "log.level", Values: map[string]string{"0": "", "-1": "", "*": "debug"}},
		{Name: "minloglevel", Type: Int32, Default: "0", Enum: "0|1|2|3", Key: "log.level",
			Values: map[string]string{"0": "info", "1": "warn", "2": "error", "3": "error"}},
		{Name: "logtostderr", Type: Bool, Default: "false", Key: "log.stderr", Values: switched("only", "")},
		{Name: "alsologtostderr", Type: Bool, Default: "false", Key: "log.stderr", Values: switched("also", ""), Fallback: true},
		{Name: "colorlogtostderr", Type: Bool, Default: "false", Feature: glog},
		{Name: "logtostdout", Type: Bool, Default: "false", Feature: glog},
		{Name: "colorlogtostdout", Type: Bool, Default: "false", Feature: glog},
		{Name: "stderrthreshold", Type: Int32, Default: "0", Feature: glog},
		{Name: "log_dir", Type: String, Key: "log.dir"},
		{Name: "log_link", Type: String, Feature: glog},
		{Name: "log_prefix", Type: Bool, Default: "true", Feature: glog},
		{Name: "log_utc_time", Type: Bool, Default: "false", Feature: glog},
		{Name: "log_year_in_prefix", Type: Bool, Default: "true", Feature: glog},
		{Name: "log_file_header", Type: Bool, Default: "true", Feature: glog},
		{Name: "log_backtrace_at", Type: String, Feature: glog},
		{Name: "logbuflevel", Type: Int32, Default: "0", Feature: glog},
		{Name: "logbufsecs", Type: Int32, Default: "30", Feature: glog},
		{Name: "logcleansecs", Type: Int32, Default: "300", Feature: glog},
		{Name: "logemaillevel", Type: Int32, Default: "999", Feature: glog},
		{Name: "logmailer", Type: String, Feature: glog},
		{Name: "alsologtoemail", Type: String, Feature: glog},
		{Name: "logfile_mode", Type: Int32, Default: "436", Feature: glog},
		{Name: "max_log_size", Type: Uint32, Default: "1800", Key: "log.max_size", Suffix: "MiB"},
		{Name: "stop_logging_if_full_disk", Type: Bool, Default: "false", Feature: glog},
		{Name: "timestamp_in_logfile_name", Type: Bool, Default: "true", Feature: glog},
		{Name: "symbolize_stacktrace", Type: Bool, Default: "true", Feature: glog},
		{Name: "drop_log_memory", Type: Bool, Default: "true", Feature: glog},
		{Name: "vmodule", Type: String, Feature: glog},
		{Name: "flagfile", Type: String, Feature: flagFiles, Refuse: true},
		{Name: "fromenv", Type: String, Feature: flagFiles, Refuse: true},
		{Name: "tryfromenv", Type: String, Feature: flagFiles, Refuse: true},
		{Name: "undefok", Type: String, Feature: flagFiles},
		{Name: "use_mmap_arena_allocator", Type: Bool, Default: "false", Key: "store.mmap_arena_pool_size", Fallback: true,
			Values: map[string]string{"true": "8GiB", "1": "8GiB", "yes": "8GiB", "on": "8GiB", "*": ""}},
		{Name: "mmap_arena_pool_size", Type: Uint64, Key: "store.mmap_arena_pool_size"},
	}
}
