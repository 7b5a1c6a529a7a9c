package redisx

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

// The scripts. Their files say what the keys, arguments and replies are.
var (
	//go:embed common.lua
	commonLua string
	//go:embed reserve.lua
	reserveLua string
	//go:embed renew.lua
	renewLua string
	//go:embed replace.lua
	replaceLua string
	//go:embed release.lua
	releaseLua string
	//go:embed load.lua
	loadLua string
	//go:embed erase.lua
	eraseLua string
)

type scripts struct {
	reserve, renew, replace, release, load, erase *redis.Script
}

func newScripts() scripts {
	script := func(lua string) *redis.Script { return redis.NewScript(commonLua + "\n" + lua) }
	return scripts{
		reserve: script(reserveLua),
		renew:   script(renewLua),
		replace: script(replaceLua),
		release: script(releaseLua),
		load:    script(loadLua),
		erase:   script(eraseLua),
	}
}
