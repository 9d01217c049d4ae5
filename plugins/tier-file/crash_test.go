package file

const crashEnv = "MOONCAKE_TIER_FILE_CRASH"

func crashChild(string) int { return 1 }
