# take.rb - ruby-redis with its default settings; see clients_test.py.
require "redis"

$stdout.sync = true
redis = Redis.new(port: ARGV[0].to_i)
500.times { puts "id #{redis.incr("orders")}" }
puts redis.pipelined { |p| 500.times { p.call("NEXT", "orders") } }.map { |id| "id #{id}" }
puts redis.call("NEXT", "big", 1000).map { |id| "big #{id}" }
puts "restart"
$stdin.gets
puts "id #{redis.incr("orders")}"
