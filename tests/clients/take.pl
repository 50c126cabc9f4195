# take.pl - the Redis module of Perl with its default settings, which don't reconnect; see
# clients_test.py.
use strict;
use warnings;
use Redis;

$| = 1;
my $redis = Redis->new(server => "127.0.0.1:$ARGV[0]");
print "id ", $redis->incr("orders"), "\n" for 1 .. 500;
my @ids;
$redis->next("orders", sub { push @ids, $_[0] }) for 1 .. 500;
$redis->wait_all_responses;
print "id $_\n" for @ids;
print "big $_\n" for @{ $redis->next("big", 1000) };
print "restart\n";
<STDIN>;
$redis = Redis->new(server => "127.0.0.1:$ARGV[0]");
print "id ", $redis->incr("orders"), "\n";
