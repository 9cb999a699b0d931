# What Ruby's net-sftp does. Arguments: port, user, directory of the lab.
require 'net/sftp'

port, user, lab = ARGV
far = ->(name) { File.join(lab, 'far', name) }
here = ->(name) { File.join(lab, name) }
options = { port: port.to_i, keys: [here['user_rsa.pem']], keys_only: true, config: false, verify_host_key: :never,
            non_interactive: true }
Net::SFTP.start('127.0.0.1', user, options) do |sftp|
  sftp.upload!(here['blob'], far['up'])
  sftp.download!(far['up'], here['down'])
  # Many files at once, in both directions.
  sftp.upload!(here['small'], far['small'], mkdir: true)
  sftp.download!(far['small'], here['small.down'], recursive: true)
  names = Dir.children(here['small']).sort
  listed = sftp.dir.entries(far['small']).map(&:name).reject { |name| name.start_with?('.') }.sort
  raise 'names' unless names == listed
  names.each { |name| raise name unless File.binread(here["small/#{name}"]) == File.binread(here["small.down/#{name}"]) }
  sftp.symlink!(far['link'], far['up'])
  # As programs that were written with OpenSSH's server have it.
  sftp.symlink!(far['up'], far['link2'])
  raise 'readlink' unless sftp.readlink!(far['link']).name == far['up']
  sftp.file.open(far['moved.from'], 'w') { |file| file.write('moved') }
  sftp.rename!(far['moved.from'], far['moved'])
  sftp.file.open(far['gone'], 'w') { |file| file.write('gone') }
  sftp.remove!(far['gone'])
end
puts 'done'
